#include "drawing/label_font.h"

#include <ft2build.h>
#include FT_FREETYPE_H

#include <cstdint>

#include "absl/status/status.h"

// The font file itself; DEFORM_LABEL_FONT is its path on the building machine.
asm(".section .rodata\n"
    ".balign 16\n"
    "deform_label_font_begin:\n"
    ".incbin \"" DEFORM_LABEL_FONT
    "\"\n"
    "deform_label_font_end:\n"
    ".byte 0\n"
    ".previous\n");
extern "C" {
extern const unsigned char deform_label_font_begin[];
extern const unsigned char deform_label_font_end[];
}

namespace deform::client {
namespace {

constexpr char32_t kReplacement = 0xFFFD;
constexpr std::string_view kEllipsis = "…";

// Takes one character off the front of `text`, which isn't empty.
char32_t TakeCharacter(std::string_view& text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const int length = first < 0x80       ? 1
                     : first >> 5 == 6  ? 2
                     : first >> 4 == 14 ? 3
                     : first >> 3 == 30 ? 4
                                        : 0;
  if (length == 0 || text.size() < static_cast<size_t>(length)) {
    text.remove_prefix(1);
    return kReplacement;
  }
  char32_t character = length == 1 ? first : first & (0x7f >> length);
  for (int i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if (next >> 6 != 2) {
      text.remove_prefix(1);
      return kReplacement;
    }
    character = character << 6 | (next & 0x3f);
  }
  text.remove_prefix(length);
  return character;
}

// Calls visit(glyph slot, pen position in 1/64 pixels) for each character; gives the end position.
template <typename Visit>
FT_Pos WalkGlyphs(FT_Face face, std::string_view text, FT_Int32 load_flags, Visit visit) {
  FT_Pos pen = 0;
  FT_UInt previous = 0;
  while (!text.empty()) {
    const FT_UInt glyph = FT_Get_Char_Index(face, TakeCharacter(text));
    FT_Vector kerning{0, 0};
    if (previous != 0 && glyph != 0) {
      FT_Get_Kerning(face, previous, glyph, FT_KERNING_DEFAULT, &kerning);
    }
    pen += kerning.x;
    if (FT_Load_Glyph(face, glyph, load_flags) == 0) {
      visit(face->glyph, pen);
      pen += face->glyph->advance.x;
    }
    previous = glyph;
  }
  return pen;
}

// Light hinting snaps to the baseline only, so that letters keep their shape at small sizes.
constexpr FT_Int32 kLoadFlags = FT_LOAD_TARGET_LIGHT;

}  // namespace

void LabelFont::FreeLibrary::operator()(FT_LibraryRec_* library) const {
  FT_Done_FreeType(library);
}
void LabelFont::FreeFace::operator()(FT_FaceRec_* face) const { FT_Done_Face(face); }

absl::StatusOr<LabelFont> LabelFont::Create(int pixel_size) {
  LabelFont font;
  FT_Library library = nullptr;
  if (FT_Init_FreeType(&library) != 0) return absl::InternalError("FreeType doesn't start");
  font.library_.reset(library);
  FT_Face face = nullptr;
  if (FT_New_Memory_Face(library, deform_label_font_begin,
                         deform_label_font_end - deform_label_font_begin, 0, &face) != 0) {
    return absl::InternalError("the labels' font can't be read");
  }
  font.face_.reset(face);
  if (FT_Set_Pixel_Sizes(face, 0, pixel_size) != 0 || FT_Load_Char(face, 'H', kLoadFlags) != 0) {
    return absl::InternalError("the labels' font doesn't scale");
  }
  font.cap_height_ = static_cast<int>((face->glyph->metrics.horiBearingY + 32) >> 6);
  return font;
}

int LabelFont::Width(std::string_view text) const {
  return static_cast<int>(
      (WalkGlyphs(face_.get(), text, kLoadFlags, [](FT_GlyphSlot, FT_Pos) {}) + 63) >> 6);
}

void LabelFont::Draw(Canvas& canvas, int x, int baseline, std::string_view text,
                     Color color) const {
  WalkGlyphs(face_.get(), text, kLoadFlags | FT_LOAD_RENDER, [&](FT_GlyphSlot glyph, FT_Pos pen) {
    const FT_Bitmap& bitmap = glyph->bitmap;
    if (bitmap.pixel_mode != FT_PIXEL_MODE_GRAY) return;
    const int left = x + static_cast<int>((pen + 32) >> 6) + glyph->bitmap_left;
    const int top = baseline - glyph->bitmap_top;
    for (unsigned row = 0; row < bitmap.rows; ++row) {
      const unsigned char* levels = bitmap.buffer + static_cast<ptrdiff_t>(row) * bitmap.pitch;
      for (unsigned column = 0; column < bitmap.width; ++column) {
        canvas.Blend(left + static_cast<int>(column), top + static_cast<int>(row), color,
                     levels[column] / 255.0f);
      }
    }
  });
}

std::string LabelFont::Shorten(std::string_view text, int width) const {
  if (Width(text) <= width) return std::string(text);
  std::string best;
  for (std::string_view rest = text; !rest.empty();) {
    TakeCharacter(rest);
    std::string shortened(text.substr(0, text.size() - rest.size()));
    shortened += kEllipsis;
    if (Width(shortened) > width) break;
    best = std::move(shortened);
  }
  return best;
}

}  // namespace deform::client
